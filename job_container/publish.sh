#!/usr/bin/env bash
# usage: job_container/publish.sh [--allow-dirty] [--check] [--repository URL] [TAG]
#
# Builds the job image of what is committed, for GPU and for CPU targets, and pushes both to ECR.
#
#   TAG               default: IMAGE_TAG, or the project's version and the git commit (0.2.0-1a2b3c4);
#                     the image for CPU targets has the same tag plus -cpu
#   --repository URL  default: ECR_REPOSITORY_URL, or what `terraform output` says
#   --allow-dirty     build despite uncommitted changes
#   --check           only check whether it can be built here; doesn't contact AWS

set -euo pipefail

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

die() {
  printf 'publish.sh: %s\n' "$1" >&2
  exit "${2:-1}"
}

show() { printf '+%s\n' "$(printf ' %q' "$@")" >&2; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tag=${IMAGE_TAG:-}
repository=${ECR_REPOSITORY_URL:-}
allow_dirty=false check=false
while (($#)); do
  case $1 in
    --allow-dirty) allow_dirty=true ;;
    --check) check=true ;;
    --repository)
      (($# > 1)) || die "--repository needs a URL" 2
      repository=$2 && shift
      ;;
    -h | --help) usage && exit ;;
    -*) usage >&2 && die "unknown option $1" 2 ;;
    *) tag=$1 ;;
  esac
  shift
done
programs=(git docker aws)
[[ -n $repository ]] || programs+=(terraform)
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || die "$program is needed but not on the PATH: install it first"
done

changes=$(git -C "$root" status --porcelain) || die "$root is not a git checkout, so no commit identifies what is in the image"
if [[ -n $changes ]] && ! "$allow_dirty"; then
  differ="$(wc -l <<<"$changes" | tr -d ' ') files differ"
  [[ $changes == *$'\n'* ]] || differ="1 file differs"
  die "$differ from the last commit (see \`git status\`), so no commit would identify what is in the image: commit or remove them, or run \`job_container/publish.sh --allow-dirty\` to try something out"
fi
suffix=${changes:+-dirty}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/pyproject.toml")
[[ -n $tag ]] || tag=$version-$(git -C "$root" rev-parse --short HEAD)$suffix
[[ $tag =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,123}$ ]] ||
  die "the tag is \"$tag\"; give up to 124 letters, digits, dots, hyphens and underscores, such as 0.2.0-1a2b3c4" 2
revision=$(git -C "$root" rev-parse HEAD)$suffix

bases=containers/base_images.env
base=$(sed -n 's/^PYTHON_IMAGE=//p' "$root/$bases" 2>/dev/null) || base=
[[ $base =~ ^[a-z0-9./_:-]+@sha256:[0-9a-f]{64}$ ]] ||
  die "$bases says PYTHON_IMAGE=\"$base\"; it must name the base image by digest: \`make base-images\` writes it"

docker version >/dev/null 2>&1 || die "no Docker engine answers: start it (\`docker version\` says what is wrong)"
docker buildx version >/dev/null 2>&1 || die "this docker has no buildx plugin: install it first"
! "$check" || exit 0

pin=
if [[ -z $repository ]]; then
  pin=$root/terraform/image.auto.tfvars
  show terraform -chdir=terraform output -raw ecr_repository_url
  repository=$(terraform -chdir="$root/terraform" output -no-color -raw ecr_repository_url) ||
    die "there is no repository yet: run \`terraform init\` and \`terraform apply\` in terraform/ first"
fi
[[ $repository =~ ^([0-9]{12}\.dkr\.ecr(-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+)/([a-z0-9._/-]+)$ ]] ||
  die "the repository is \"$repository\"; an ECR one looks like 111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job" 2
registry=${BASH_REMATCH[1]} region=${BASH_REMATCH[3]} name=${BASH_REMATCH[4]}

# Prints the digest that a tag has in ECR, or nothing where it has none.
digest_of() {
  local found ask=(aws ecr describe-images --region "$region" --repository-name "$name"
    --image-ids "imageTag=$1" --query 'imageDetails[0].imageDigest' --output text)
  show "${ask[@]}"
  if found=$("${ask[@]}" 2>&1); then
    [[ $found =~ sha256:[0-9a-f]{64} ]] || die "ECR gives \"$found\" as the digest of $repository:$1"
    printf '%s' "${BASH_REMATCH[0]}"
  elif [[ $found != *ImageNotFoundException* ]]; then
    die "can't look up $name in $region: check your credentials, and that it is applied. AWS says:
$found"
  fi
}

# Tags are immutable: what an earlier try has pushed stays.
cpu_digest=$(digest_of "$tag-cpu")
gpu_digest=$(digest_of "$tag")
[[ -z $cpu_digest || -z $gpu_digest ]] ||
  die "$repository:$tag exists already, as $gpu_digest, and for CPU targets as $cpu_digest; tags are immutable. To use them, write this to terraform/image.auto.tfvars and apply:
  image_tag     = \"$gpu_digest\"
  cpu_image_tag = \"$cpu_digest\"
To publish others, commit your changes or give another tag."

metadata=$(mktemp)
# Docker would keep the login, which lasts 12 hours.
trap 'rm -f "$metadata"; docker logout "$registry" >/dev/null 2>&1 || :' EXIT
show aws ecr get-login-password --region "$region"
aws ecr get-login-password --region "$region" |
  docker login --username AWS --password-stdin "$registry" >/dev/null ||
  die "logging in to $registry failed; nothing was pushed"

# Attestations would make an index of the image, whose digest is not the image's.
build=(docker buildx build --push --platform linux/amd64 --provenance=false --metadata-file "$metadata"
  --build-arg "PYTHON_IMAGE=$base" --build-arg "BASE_NAME=${base%@*}" --build-arg "BASE_DIGEST=${base#*@}"
  --build-arg "VERSION=$version" --build-arg "REVISION=$revision"
  --build-arg "CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ)")
# Only a source that anybody may read, and never a user's name or token.
origin=$(git -C "$root" remote get-url origin 2>/dev/null) || origin=
[[ ! $origin =~ ^https://([^/@]*@)?([^@]+)$ ]] ||
  build+=(--label "org.opencontainers.image.source=https://${BASH_REMATCH[2]}")

# publish VARIANT TAG: sets `digest` to what ECR says of the pushed image.
publish() {
  local image=$repository:$2 id
  show "${build[@]}" --target "$1" --tag "$image" "$root/job_container"
  "${build[@]}" --target "$1" --tag "$image" "$root/job_container" ||
    die "$image is not in the repository. Fix the error above and run this again: layers already uploaded are not sent again.
\"denied\" means that your credentials lack ecr:PutImage or ecr:UploadLayerPart."
  digest=$(digest_of "$2")
  [[ -n $digest ]] || die "$image was pushed, but ECR does not have it"
  printf 'Pushed %s\n  Digest in ECR: %s\n' "$image" "$digest"
  # Docker on an instance calls an image by its configuration's digest, and so do the results.
  id=$(sed -n 's/.*"containerimage.config.digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' "$metadata")
  [[ -z $id ]] || printf '  Its image_digest in results: %s\n' "$id"
}

[[ -n $cpu_digest ]] || { publish cpu "$tag-cpu"; cpu_digest=$digest; }
[[ -n $gpu_digest ]] || { publish gpu "$tag"; gpu_digest=$digest; }

# Every later apply has to name the digests again, or jobs go back to the default's tag.
if [[ -n $pin ]]; then
  printf 'image_tag     = "%s"\ncpu_image_tag = "%s"\n' "$gpu_digest" "$cpu_digest" >"$pin"
  printf '\nPinned in %s, which every terraform apply there reads. To use them now, in terraform/,\nwith the -var-file that you apply with:\n  terraform apply\n' "$pin"
else
  printf '\nTo use them, where that repository was made, and in every later apply there:\n'
  printf '  terraform apply -var image_tag=%s -var cpu_image_tag=%s\n' "$gpu_digest" "$cpu_digest"
fi
