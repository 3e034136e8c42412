# SPDX-License-Identifier: Apache-2.0
"""Native code: built out of Python functions and of LLVM's IR, kept as object files, and loaded from these.

Other packages take everything from here. What needs Numba is imported where something is built.
"""

from detour.base.native.objects import BASELINE as BASELINE
from detour.base.native.objects import COMPILER as COMPILER
from detour.base.native.objects import MACHINE as MACHINE
from detour.base.native.objects import NO_MEMORY as NO_MEMORY
from detour.base.native.objects import TARGET as TARGET
from detour.base.native.objects import NativeCode as NativeCode
from detour.base.native.objects import processors as processors
from detour.base.native.objects import to_object as to_object
from detour.base.native.parts import BUILD_COMMAND as BUILD_COMMAND
from detour.base.native.parts import NATIVE_CACHE as NATIVE_CACHE
from detour.base.native.parts import LocalPart as LocalPart
from detour.base.native.parts import Part as Part
from detour.base.native.parts import build_side_by_side as build_side_by_side
from detour.base.native.parts import ensure as ensure
