#!/bin/sh
# Ends the making of an image's environment: finish_environment.sh FOLDER
# Takes away what nothing runs, and lists what stays in sbom.cdx.json, in the folder that it is called in.
set -eu

python=$1/bin/python
pip --python "$python" check

# uv's lock file, which anybody could write to
rm -f "$1/.lock"

# torch lists setuptools for C++ extensions, which the job does not build.
pip --python "$python" uninstall --quiet --yes setuptools
torch=$("$python" -c 'import importlib.util; print(*importlib.util.find_spec("torch").submodule_search_locations)')
rm -rf "${torch:?}/include" "$torch/test"
find "$torch/bin" -type f ! -name torch_shm_manager -delete

/opt/tools/bin/cyclonedx-py environment --output-reproducible --validate \
  --output-format JSON --output-file sbom.cdx.json "$python"
