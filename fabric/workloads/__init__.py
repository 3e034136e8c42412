# SPDX-License-Identifier: Apache-2.0
"""What hosts are to send, read from files or drawn: pure, without a fabric."""
