#!/usr/bin/env bash
# Builds the job image and pushes it to the ECR repository that Terraform made.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: job_container/publish.sh [--allow-dirty] [--dry-run] [--repository URL] [TAG]

  TAG               default: IMAGE_TAG, or the project's version and the git commit (0.1.0-1a2b3c4)
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

if [[ -z $tag ]]; then
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/pyproject.toml")
  tag=$version-$(git -C "$root" rev-parse --short HEAD)$suffix
fi
[[ $tag =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$ ]] ||
  die "the tag is \"$tag\"; give up to 128 letters, digits, dots, hyphens and underscores, such as 0.1.0-1a2b3c4" 2

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
image=$repository:$tag

if ! "$dry_run"; then
  show "docker version"
  docker version >/dev/null 2>&1 ||
    die "Docker's daemon can't be reached: start it, or see what \`docker version\` says"
fi

################################################################################
# A tag never moves
################################################################################

of_tag=(--region "$region" --repository-name "$name" --image-ids "imageTag=$tag")
find_digest=(aws ecr describe-images "${of_tag[@]}"
  --query 'imageDetails[0].imageDigest' --output text)

show "$(quoted "${find_digest[@]}")"
if ! "$dry_run"; then
  if found=$("${find_digest[@]}" 2>&1); then
    [[ $found =~ sha256:[0-9a-f]{64} ]] && found=${BASH_REMATCH[0]}
    die "$image exists already, as $found, and tags are immutable. To use it, write this to terraform/image.auto.tfvars and apply:
  image_tag = \"$found\"
To publish another image, commit your changes or give another tag."
  fi
  case $found in
    *ImageNotFoundException*) ;;
    *RepositoryNotFoundException*)
      die "there is no repository $name in $region: run \`terraform apply\` in terraform/ first" ;;
    *) die "AWS can't be asked for $name in $region; check your credentials. It says:
$found" ;;
  esac
fi

################################################################################
# Build and push
################################################################################

# Attestations would make an index of it, whose digest is not the image's.
run env BUILDX_NO_DEFAULT_ATTESTATIONS=1 \
  docker build --platform linux/amd64 --tag "$image" "$root/job_container" ||
  die "docker build failed; nothing was pushed. Correct what it says above and run this again."

show "aws ecr get-login-password --region $region | docker login --username AWS --password-stdin $registry"
if ! "$dry_run"; then
  aws ecr get-login-password --region "$region" |
    docker login --username AWS --password-stdin "$registry" >/dev/null ||
    die "logging in to $registry failed; nothing was pushed. The image is built: run this again with other credentials."
fi

run docker push "$image" ||
  die "docker push failed; $image is not in the repository. Run this again: layers that arrived are not sent twice.
\"denied\" means that your credentials lack ecr:PutImage or ecr:UploadLayerPart; after 12 hours a login has expired."

show "$(quoted "${find_digest[@]}")"
find_manifest=(aws ecr batch-get-image "${of_tag[@]}"
  --query 'images[0].imageManifest' --output text)
if "$dry_run"; then
  show "$(quoted "${find_manifest[@]}")"
  say "Nothing was run. At the end the digest is pinned in terraform/image.auto.tfvars, for terraform apply."
  exit
fi
digest=$("${find_digest[@]}")
[[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] ||
  die "$image was pushed, but ECR gives \"$digest\" as its digest; ask again with the last command above"

show "$(quoted "${find_manifest[@]}")"
image_id=$("${find_manifest[@]}" | tr -d '[:space:]' |
  sed -n 's/.*"config":{[^}]*"digest":"\(sha256:[0-9a-f]\{64\}\)".*/\1/p')

say "Pushed $image"
say "Digest in ECR: $digest"
# Docker on an instance calls an image by its configuration's digest, and so do the results.
[[ -z $image_id ]] || say "Its image_digest in results: $image_id"
say
# Every later apply has to name it again, or the jobs go back to the default's tag.
if [[ -n $pin ]]; then
  printf 'image_tag = "%s"\n' "$digest" >"$pin"
  say "Pinned in $pin, which every terraform apply there reads. To use it now, in terraform/,"
  say "with the -var-file that you apply with:"
  say "  terraform apply"
else
  say "To use it, where that repository was made, and in every later apply there:"
  say "  terraform apply -var image_tag=$digest"
fi
