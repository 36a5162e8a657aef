# Sourced by ./run, ./check and scripts/lock, which set ROOT first. Needs Python 3.11 or newer with pip, and nothing else.
#
# The system's Python is only read. uv goes into .tools (unless a recent one is on the PATH), everything else into .venv,
# each from a lock file with hashes. When lock files and pyproject.toml are as they were, nothing is fetched or installed.

TOOLS="$ROOT/.tools"
VENV="$ROOT/.venv"
STAMP="$VENV/prowess-stamp"

# A foreign PYTHONPATH would put unlocked packages before locked ones.
unset PYTHONPATH PYTHONHOME
# Compiled modules are kept in this folder; without them every start compiles the project anew.
unset PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# uv brings its own list of certificate authorities; where the system has one, a company's own may be in it.
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    [ ! -s "$bundle" ] || export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
done

say() { printf 'prowess: %s\n' "$*" >&2; }

die() {
    say "$@"
    exit 1
}

home_usable() { [ -n "${HOME:-}" ] && [ -d "$HOME" ] && [ -w "$HOME" ]; }

if ! home_usable; then
    # Without a home, uv and pip would try to write their caches at the root of the disk.
    export UV_CACHE_DIR="${UV_CACHE_DIR:-$TOOLS/cache}" PIP_NO_CACHE_DIR=1
fi

# The path of the interpreter "$1" where it is new enough. Candidates are run, not only looked up: a version manager leaves
# launchers on the PATH for versions that it does not offer.
new_enough() {
    "$1" -c 'import sys; sys.version_info >= (3, 11) and print(sys.executable)' 2>/dev/null | grep .
}

# Sets PYTHON.
find_python() {
    if [ -n "${PROWESS_PYTHON:-}" ]; then
        PYTHON=$(new_enough "$PROWESS_PYTHON") || die "PROWESS_PYTHON, $PROWESS_PYTHON, is no Python 3.11 or newer"
        return 0
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if PYTHON=$(new_enough "$candidate"); then return 0; fi
    done
    die "Python 3.11 or newer is needed and none was found. Install it (Debian, Ubuntu: apt-get install python3 python3-pip)," \
        "or name one: PROWESS_PYTHON=/path/to/python3 $0"
}

# Whether "$1" is a uv that knows the options used here.
uv_usable() {
    version=$("$1" --version 2>/dev/null) || return 1
    version=${version#uv }
    case $version in
        0.[0-8].*) return 1 ;;
        [0-9]*) return 0 ;;
        *) return 1 ;;
    esac
}

# Sets UV. `pip install --target` neither touches the system's Python nor minds its being externally managed (PEP 668);
# a Python without pip may still have ensurepip, and with it `venv`.
find_uv() {
    for UV in "$TOOLS/bin/uv" uv; do
        if uv_usable "$UV"; then return 0; fi
    done
    UV="$TOOLS/bin/uv"
    say "fetching uv, the installer, into .tools"
    set -- install --quiet --no-deps --only-binary :all: \
        --require-hashes --requirement "$ROOT/requirements-uv.lock"
    rm -rf "$TOOLS/bin"
    if "$PYTHON" -m pip --version >/dev/null 2>&1; then
        PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 "$PYTHON" -m pip "$@" --upgrade --target "$TOOLS" >&2 ||
            die "pip could not fetch uv; its own message is above. Is a package index reachable?"
    elif "$PYTHON" -m venv --clear "$TOOLS" >/dev/null 2>&1; then
        PIP_USER=0 "$TOOLS/bin/python" -m pip "$@" >&2 ||
            die "pip could not fetch uv; its own message is above. Is a package index reachable?"
    else
        die "$PYTHON has neither pip nor ensurepip. Install one (Debian, Ubuntu: apt-get install python3-pip), or install uv."
    fi
    uv_usable "$UV" || die "uv was installed as .tools/bin/uv but does not start on this machine"
}

# What the environment was made from: the lock, the project's own declaration, and the place, as scripts hold its path.
fingerprint() {
    { cat "$ROOT/$1" "$ROOT/pyproject.toml" && printf '%s' "$ROOT"; } | cksum
}

up_to_date() {
    [ -x "$VENV/bin/python" ] && [ -f "$STAMP" ] && grep -qxF "$1 $(fingerprint "$2")" "$STAMP"
}

# Whether .venv has to be made anew: no working Python in it, or made where the project lay before.
venv_unfit() {
    "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return 0
    [ -f "$STAMP" ] && ! grep -qxF "root $ROOT" "$STAMP"
}

uv_pip() { "$UV" pip "$@" --quiet --python "$VENV/bin/python" --compile-bytecode >&2; }

# install_locked run|dev: brings .venv to what the lock file says. The dev lock holds all that the run lock holds.
install_locked() {
    if up_to_date dev requirements-dev.lock; then return 0; fi
    if [ "$1" = run ] && up_to_date run requirements.lock; then return 0; fi

    find_python
    find_uv
    if venv_unfit; then
        say "making .venv with $PYTHON"
        "$UV" venv --quiet --no-project --clear --python "$PYTHON" "$VENV" >&2 || die "uv could not make .venv"
    fi
    rm -f "$STAMP"
    # `sync` also removes what the lock does not name; `install` leaves a developer's tools alone.
    if [ "$1" = dev ]; then
        lock=requirements-dev.lock
        say "installing what $lock names"
        uv_pip sync --require-hashes "$ROOT/$lock"
    else
        lock=requirements.lock
        say "installing what $lock names"
        uv_pip install --require-hashes --requirements "$ROOT/$lock"
    fi || die "uv could not install the packages; its message is above. Running the command again goes on from here"
    uv_pip install --no-deps --no-build-isolation --editable "$ROOT" || die "uv could not install the project itself"
    printf 'root %s\n%s %s\n' "$ROOT" "$1" "$(fingerprint "$lock")" >"$STAMP"
}
