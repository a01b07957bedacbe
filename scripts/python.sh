# For scripts that test the built program with Python, to be sourced in the root of the project. `subject` says what the
# script tests, and `folder` names its folder in the target folder. Sets `work` to that folder, and `python` to the Python
# of a virtual environment there. Without Python, it prints a conspicuous notice and ends the script.

. scripts/program.sh

command -v python3 >/dev/null 2>&1 || skip "Python is missing (Debian: apt-get install python3 python3-venv)"
# The versions of the tools in the constraints need it.
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$(python3 --version) is too old; 3.11 or later is needed"
work=$target/$folder
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
    skip "Python cannot create virtual environments (Debian: apt-get install python3-venv)"
python=$work/venv/bin/python

# Caches stay out of the source folders.
export PYTHONPATH="$PWD/tests/support" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
