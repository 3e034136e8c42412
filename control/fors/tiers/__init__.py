# SPDX-License-Identifier: Apache-2.0
"""FORS on fat-trees of three levels: leaves and aggregation switches in pods, cores above. How: docs/fors.md."""
