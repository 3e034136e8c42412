# SPDX-License-Identifier: Apache-2.0
"""Packages of others on PYTHONPATH with names of ours."""

import os
import subprocess
import sys
from pathlib import Path

import detour


def test_a_package_google_that_is_not_protobufs(tmp_path):
    """As BMv2's Python tools install it. What both have is protobuf's or ours."""
    (tmp_path / "google" / "rpc").mkdir(parents=True)
    (tmp_path / "google" / "__init__.py").touch()
    (tmp_path / "google" / "rpc" / "__init__.py").write_text("raise ImportError('not this one')\n")
    (tmp_path / "google" / "only_here.py").touch()
    code = "import detour, google.protobuf.text_format, google.only_here; from finsy.proto import p4r"
    folders = [str(tmp_path), str(Path(detour.__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
