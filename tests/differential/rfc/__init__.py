# SPDX-License-Identifier: Apache-2.0
"""fabric.p4 against a model of a uSID node that was written from the RFCs, not from the program."""
