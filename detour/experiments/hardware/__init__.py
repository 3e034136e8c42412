# SPDX-License-Identifier: Apache-2.0
"""nccl-tests on a fabric in virtual time, and beside what they have measured on machines."""

__all__ = ["experiment", "logs", "nccl_tests", "page"]
