# SPDX-License-Identifier: Apache-2.0
"""The engine against the Linux kernel's seg6local: uN (End) and uA (End.X) with NEXT-CSID."""
