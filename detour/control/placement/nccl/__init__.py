# SPDX-License-Identifier: Apache-2.0
"""NCCL's collectives: machines of GPUs and NICs, NCCL's rules, and what flows a job of one operation consists of."""

__all__ = ["layout", "machines", "rules"]
