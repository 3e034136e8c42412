# SPDX-License-Identifier: Apache-2.0
"""The wheel runs: `make wheel`, or `python -m tests.wheel [--python PYTHON | --target TRIPLE]`.

Builds it, installs it in a virtual environment of its own, and runs from it, in an empty folder, without Numba and
without this checkout on any path, what people try first. What it depends on comes from the environment that runs this,
if that has the same Python; else pip installs it. With `--target` it is for another machine, and is built only.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import setuptools

from detour.base.native import TARGET

ROOT = Path(__file__).resolve().parents[1]
BUILD = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
_BUILDS_WHEELS = (70, 1)
"""setuptools that needs no package `wheel`"""
_DIGEST = 32
"""bytes in front of what the cache keeps"""
_EVERY_PART = """
import importlib, pkgutil, detour
from detour.base.native import build_side_by_side
from detour.base.native.parts import PARTS
for module in pkgutil.walk_packages(detour.__path__, "detour."):
    if not module.name.startswith("detour.base.native.") and not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # a package of an extra
            assert not error.name.startswith("detour"), error
assert list(build_side_by_side((part.name, *part.modules) for part in PARTS.values()))
print(*(part.files[0] for part in PARTS.values()))
"""
"""builds all native code, also of commands for which `detour warm` has none; prints the names of the objects"""
_PLUGIN = """
from detour.hosts.cc.plugin import CongestionAlgorithm, hook

@hook
def on_acked(p, s, q, packet, now):
    q.cwnd = 10.0

CC = CongestionAlgorithm(hooks=(on_acked,))
"""
COMMANDS: list[list[str]] = [
    ["up", "--detach", "--topo", "leaf-spine:leaves=2,spines=1,hosts=1", "--json"],
    ["send", "h0", "h1", "--bytes", "100000", "--json"],
    ["verify", "--json"],
    ["down", "--json"],
    ["reproduce", "deadlock", "--json"],
    ["sim", "--topo", "leaf-spine:leaves=2,spines=1,hosts=1", "--workload", "permutation:bytes=1e5", "--json"],
    ["fors", "route", "--topo", "ft:m0=4,m1=3", "--json"],
]


def main() -> int:
    """0 if everything worked; else what did not is shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python to install it for")
    parser.add_argument("--target", metavar="TRIPLE", default="", help="build it for aarch64-unknown-linux-gnu, say")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="detour-wheel-") as name:
        folder = Path(name)
        wheel = with_native_code(build(folder / "pure"), folder, options.target)
        missing = absent(wheel)
        if missing:
            sys.exit(f"the wheel lacks {', '.join(missing[:5])} and {max(len(missing) - 5, 0)} more")
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        wheel = Path(shutil.copy(wheel, dist))
        if options.target:
            print(wheel.relative_to(ROOT))
            return 0
        detour = install(wheel, folder / "venv", options.python)
        away = folder / "away"
        away.mkdir()
        try_it(detour, away)
    print("the wheel runs")
    return 0


def build(folder: Path) -> Path:
    """Builds the wheel, without the network if this environment has what builds it."""
    here = tuple(int(part) for part in setuptools.__version__.split(".")[:2]) >= _BUILDS_WHEELS
    isolated = ["--no-build-isolation"] if here else []
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # what an earlier build left goes into every later wheel
    subprocess.run([sys.executable, *BUILD, *isolated, "--wheel-dir", str(folder), str(ROOT)], check=True)
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    shutil.rmtree(ROOT / "detour_fabric.egg-info", ignore_errors=True)  # would hide entry points that are added later
    (wheel,) = folder.glob("*.whl")
    return wheel


def with_native_code(wheel: Path, folder: Path, target: str = "") -> Path:
    """The wheel for a platform and any Python: with native code for the baseline of its processors."""
    cache = ROOT / "build" / "objects"
    environment = os.environ | {TARGET: target, "NUMBA_CPU_FEATURES": "", "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", "from detour.base.native import BASELINE, MACHINE; print(BASELINE, *MACHINE)"]
    baseline, architecture, system = run(command, ROOT, environment).split()
    names = run([sys.executable, "-c", _EVERY_PART], ROOT, environment | {"NUMBA_CPU_NAME": baseline}).split()
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    native = unpacked / "detour" / "native"
    native.mkdir()
    for name in names:
        (native / name).write_bytes((cache / "detour" / "numba" / name).read_bytes()[_DIGEST:])
    tag = f"py3-none-{system}_{architecture}"
    (about,) = unpacked.glob("*.dist-info")
    metadata = (about / "WHEEL").read_text().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    (about / "WHEEL").write_text(metadata.replace("Tag: py3-none-any", f"Tag: {tag}"))
    return _packed(unpacked, about, folder / wheel.name.replace("py3-none-any", tag))


def _packed(folder: Path, about: Path, wheel: Path) -> Path:
    """Zips a wheel's files with a new RECORD (PyPA, "Recording installed projects")."""
    record = about / "RECORD"
    record.unlink()
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, content = str(path.relative_to(folder)), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            archive.write(path, name)
        where = str(record.relative_to(folder))
        archive.writestr(where, "\n".join([*lines, f"{where},,", ""]))
    return wheel


def absent(wheel: Path) -> list[str]:
    """What the repository has in the package and the wheel has not."""
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "detour"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return sorted(set(tracked) - inside)


def install(wheel: Path, folder: Path, python: str) -> Path:
    """The command of a new environment with the wheel in it."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    version = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True
    ).stdout.split()
    shared = [int(part) for part in version] == list(sys.version_info[:2])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *(["--no-deps"] if shared else []), str(wheel)], check=True)
    if shared:  # after its own packages, so detour is that of the wheel
        (site,) = (folder / "lib").glob("python*/site-packages")
        (site / "dependencies.pth").write_text(f"{_without_numba(folder / 'dependencies' / 'site-packages')}\n")
        _check_origin(folder)
    return folder / "bin" / "detour"


def _without_numba(folder: Path) -> Path:
    """The packages of this environment, as links, but for those of the extra `plugins` and for detour."""
    folder.mkdir(parents=True)
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not path.name.startswith(("numba", "detour", "__editable__", "_detour")):
            (folder / path.name).symlink_to(path)
    return folder


def _check_origin(folder: Path) -> None:
    """Ends if `import detour` finds another package than the wheel's, such as an editable install's."""
    origin = subprocess.run(
        [folder / "bin" / "python", "-P", "-c", "import detour; print(detour.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    ).stdout.strip()
    if not Path(origin).is_relative_to(folder):
        sys.exit(f"not the wheel's: {origin}")


def try_it(detour: Path, folder: Path) -> None:
    """Runs commands in an empty folder."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment["XDG_RUNTIME_DIR"] = str(state)
    version = run([str(detour), "--version"], folder, environment)
    if version != run([str(detour.with_name("python")), "-m", "detour", "--version"], folder, environment):
        sys.exit("`python -m detour` is not the same as `detour`")
    environment["XDG_CACHE_HOME"] = str(folder / "empty")
    python = str(detour.with_name("python"))
    if (
        run([python, "-c", "from importlib.util import find_spec; print(find_spec('numba'))"], folder, environment)
        != "None\n"
    ):
        sys.exit("Numba is there")
    run([str(detour), "warm", "--json"], folder, environment)
    run([python, "-c", _EVERY_PART], folder, environment)
    _refuse_plugin(detour, folder, environment)
    _try_switch(detour, folder, environment)
    try:
        for arguments in COMMANDS:
            json.loads(run([str(detour), *arguments], folder, environment))
            print("detour", *arguments)
    finally:  # a fabric that is still up because a command failed
        subprocess.run([str(detour), "down"], cwd=folder, env=environment, capture_output=True, check=False)


def _refuse_plugin(detour: Path, folder: Path, environment: dict[str, str]) -> None:
    """A plug-in of one's own has to be compiled: one line says what is missing."""
    (folder / "own.py").write_text(_PLUGIN)
    command = [str(detour), "sim", *COMMANDS[0][2:4], "--workload", "permutation:bytes=1e5", "--cc", "own.py:CC"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    if done.returncode != 2 or len(lines) != 1 or "detour-fabric[plugins]" not in lines[0]:
        sys.exit(f"a plug-in without Numba: {done.returncode}\n{done.stderr}")
    print(lines[0])


def _try_switch(detour: Path, folder: Path, environment: dict[str, str]) -> None:
    """`detour switch` listens with a program of the wheel, which it compiles, and ends when it is told to."""
    (program,) = (detour.parents[1] / "lib").glob("python*/site-packages/detour/p4src/build/fabric.json")
    command = [str(detour), "switch", str(program), "--", "--grpc-server-addr", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    process.terminate()
    rest, _ = process.communicate(timeout=60)
    if "127.0.0.1:" not in said + rest:
        sys.exit(f"detour switch says {said}{rest}")
    print("detour switch:", said.strip())


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command prints; ends with everything it said if it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
