# SPDX-License-Identifier: Apache-2.0
"""The compiler against p4c, on p4c's own samples, on other people's programs, and on random ones.

python -m tests.differential.p4c_corpus --samples /opt/src/p4c/testdata compile errors p4info stf
"""
