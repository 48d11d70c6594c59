#!/usr/bin/env bash
# Builds the job image, for GPU and for CPU targets, and pushes both to the ECR repository that Terraform made.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: job_container/publish.sh [--allow-dirty] [--dry-run] [--repository URL] [TAG]

  TAG               default: IMAGE_TAG, or the project's version and the git commit (0.1.0-1a2b3c4);
                    the image of CPU targets has the same with -cpu behind it
  --repository URL  ECR repository; default: ECR_REPOSITORY_URL, or what `terraform output` says
  --allow-dirty     build although there are changes that are not committed
  --dry-run         print the commands that Docker and AWS would get, run none of them
USAGE
}

say() { printf '%s\n' "$*"; }

die() {
  printf 'publish.sh: %s\n' "$1" >&2
  exit "${2:-1}"
}

# Commands go to stderr, so that a captured one shows too.
show() { printf '+ %s\n' "$*" >&2; }

quoted() {
  local words
  printf -v words ' %q' "$@"
  printf '%s' "${words# }"
}

run() {
  show "$(quoted "$@")"
  "$dry_run" || "$@"
}

need() {
  command -v "$1" >/dev/null || die "$1 is needed and not on the PATH: $2"
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tag=${IMAGE_TAG:-}
repository=${ECR_REPOSITORY_URL:-}
allow_dirty=false
dry_run=false

while (($#)); do
  case $1 in
    --allow-dirty) allow_dirty=true ;;
    --dry-run) dry_run=true ;;
    --repository)
      (($# > 1)) || die "--repository needs a URL" 2
      repository=$2
      shift
      ;;
    -h | --help)
      usage
      exit
      ;;
    -*)
      usage >&2
      die "unknown option $1" 2
      ;;
    *) tag=$1 ;;
  esac
  shift
done

################################################################################
# What, and where to
################################################################################

need git "install it first"
if ! "$dry_run"; then
  need docker "install Docker Engine or Docker Desktop first"
  need aws "install the AWS CLI, version 2, first"
fi

changes=$(git -C "$root" status --porcelain) || die "$root is no git checkout, so no commit says what is in the image"
suffix=
if [[ -n $changes ]]; then
  "$allow_dirty" ||
    die "$(wc -l <<<"$changes" | tr -d ' ') files differ from the last commit (see \`git status\`), so no commit would say what is in the image: commit them, or add --allow-dirty to try something out"
  suffix=-dirty
fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/pyproject.toml")
[[ -n $tag ]] || tag=$version-$(git -C "$root" rev-parse --short HEAD)$suffix
[[ $tag =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,123}$ ]] ||
  die "the tag is \"$tag\"; give up to 124 letters, digits, dots, hyphens and underscores, such as 0.1.0-1a2b3c4" 2
revision=$(git -C "$root" rev-parse HEAD)$suffix

bases=containers/base_images.env
base=$(sed -n 's/^PYTHON_IMAGE=//p' "$root/$bases" 2>/dev/null) || base=
[[ $base =~ ^[a-z0-9./_:-]+@sha256:[0-9a-f]{64}$ ]] ||
  die "$bases says PYTHON_IMAGE=\"$base\"; it must name the base image by digest: \`make base-images\` writes it"

# Only what anybody may read: never a user's name or token.
origin=$(git -C "$root" remote get-url origin 2>/dev/null) || origin=
source=
[[ ! $origin =~ ^https://([^/@]*@)?([^@]+)$ ]] || source=https://${BASH_REMATCH[2]}

pin=
if [[ -z $repository ]]; then
  pin=$root/terraform/image.auto.tfvars
  need terraform "install it first, or name the repository with --repository"
  show "terraform -chdir=terraform output -raw ecr_repository_url"
  repository=$(terraform -chdir="$root/terraform" output -no-color -raw ecr_repository_url) ||
    die "there is no repository yet: run \`terraform init\` and \`terraform apply\` in terraform/ first"
fi
[[ $repository =~ ^([0-9]{12}\.dkr\.ecr(-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+)/([a-z0-9._/-]+)$ ]] ||
  die "the repository is \"$repository\"; an ECR one looks like 111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job" 2
registry=${BASH_REMATCH[1]}
region=${BASH_REMATCH[3]}
name=${BASH_REMATCH[4]}

tag_of() {
  if [[ $1 == gpu ]]; then printf '%s' "$tag"; else printf '%s' "$tag-$1"; fi
}

if ! "$dry_run"; then
  show "docker version"
  docker version >/dev/null 2>&1 ||
    die "Docker's daemon can't be reached: start it, or see what \`docker version\` says"
fi

################################################################################
# A tag never moves
################################################################################

# Sets image and the questions about it.
turn_to() {
  image=$repository:$(tag_of "$1")
  local of_tag=(--region "$region" --repository-name "$name" --image-ids "imageTag=$(tag_of "$1")")
  find_digest=(aws ecr describe-images "${of_tag[@]}"
    --query 'imageDetails[0].imageDigest' --output text)
  find_manifest=(aws ecr batch-get-image "${of_tag[@]}"
    --query 'images[0].imageManifest' --output text)
}

# Prints the digest of what turn_to named, or nothing where ECR has no such image.
ask_for_digest() {
  local found
  show "$(quoted "${find_digest[@]}")"
  if "$dry_run"; then
    return
  elif found=$("${find_digest[@]}" 2>&1); then
    [[ $found =~ sha256:[0-9a-f]{64} ]] || die "ECR gives \"$found\" as the digest of $image"
    printf '%s' "${BASH_REMATCH[0]}"
    return
  fi
  case $found in
    *ImageNotFoundException*) ;;
    *RepositoryNotFoundException*)
      die "there is no repository $name in $region: run \`terraform apply\` in terraform/ first" ;;
    *) die "AWS can't be asked for $name in $region; check your credentials. It says:
$found" ;;
  esac
}

turn_to cpu
cpu_digest=$(ask_for_digest)
turn_to gpu
gpu_digest=$(ask_for_digest)
missing=()
[[ -n $cpu_digest ]] || missing+=(cpu)
[[ -n $gpu_digest ]] || missing+=(gpu)
if ((${#missing[@]} == 0)); then
  die "$repository:$tag exists already, as $gpu_digest, and for CPU targets as $cpu_digest; tags are immutable. To use them, write this to terraform/image.auto.tfvars and apply:
  image_tag     = \"$gpu_digest\"
  cpu_image_tag = \"$cpu_digest\"
To publish others, commit your changes or give another tag."
fi
((${#missing[@]} == 2)) ||
  say "$(tag_of "$([[ -n $cpu_digest ]] && echo cpu || echo gpu)") exists already, as $cpu_digest$gpu_digest: it stays."

################################################################################
# Build and push
################################################################################

build=(docker build --platform linux/amd64 --build-arg "PYTHON_IMAGE=$base"
  --build-arg "BASE_NAME=${base%@*}" --build-arg "BASE_DIGEST=${base#*@}"
  --build-arg "VERSION=$version" --build-arg "REVISION=$revision"
  --build-arg "CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ)")
[[ -z $source ]] || build+=(--label "org.opencontainers.image.source=$source")

for variant in "${missing[@]}"; do
  turn_to "$variant"
  # Attestations would make an index of it, whose digest is not the image's.
  run env BUILDX_NO_DEFAULT_ATTESTATIONS=1 \
    "${build[@]}" --target "$variant" --tag "$image" "$root/job_container" ||
    die "docker build failed; nothing was pushed. Correct what it says above and run this again."
done

show "aws ecr get-login-password --region $region | docker login --username AWS --password-stdin $registry"
if ! "$dry_run"; then
  aws ecr get-login-password --region "$region" |
    docker login --username AWS --password-stdin "$registry" >/dev/null ||
    die "logging in to $registry failed; nothing was pushed. The images are built: run this again with other credentials."
fi

for variant in "${missing[@]}"; do
  turn_to "$variant"
  find_size=(docker image inspect --format '{{.Size}}' "$image")
  run docker push "$image" ||
    die "docker push failed; $image is not in the repository. Run this again: layers that arrived are not sent twice.
\"denied\" means that your credentials lack ecr:PutImage or ecr:UploadLayerPart; after 12 hours a login has expired."

  show "$(quoted "${find_digest[@]}")"
  show "$(quoted "${find_manifest[@]}")"
  show "$(quoted "${find_size[@]}")"
  ! "$dry_run" || continue

  digest=$("${find_digest[@]}")
  [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] ||
    die "$image was pushed, but ECR gives \"$digest\" as its digest; ask for it again: $(quoted "${find_digest[@]}")"
  if [[ $variant == gpu ]]; then gpu_digest=$digest; else cpu_digest=$digest; fi
  # It is only told: a role that may push need not be one that may read.
  image_id=$("${find_manifest[@]}" | tr -d '[:space:]' |
    sed -n 's/.*"config":{[^}]*"digest":"\(sha256:[0-9a-f]\{64\}\)".*/\1/p') || image_id=
  size=$("${find_size[@]}")

  say "Pushed $image"
  say "  Digest in ECR: $digest"
  # Docker on an instance calls an image by its configuration's digest, and so do the results.
  [[ -z $image_id ]] || say "  Its image_digest in results: $image_id"
  say "  Its size, unpacked: $((size / 1000000)) MB"
done

if "$dry_run"; then
  say "Nothing was run. At the end both digests are pinned in terraform/image.auto.tfvars, for terraform apply."
  exit
fi
say
# Every later apply has to name them again, or the jobs go back to the default's tag.
if [[ -n $pin ]]; then
  printf 'image_tag     = "%s"\ncpu_image_tag = "%s"\n' "$gpu_digest" "$cpu_digest" >"$pin"
  say "Pinned in $pin, which every terraform apply there reads. To use them now, in terraform/,"
  say "with the -var-file that you apply with:"
  say "  terraform apply"
else
  say "To use them, where that repository was made, and in every later apply there:"
  say "  terraform apply -var image_tag=$gpu_digest -var cpu_image_tag=$cpu_digest"
fi
