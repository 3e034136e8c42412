# SPDX-License-Identifier: Apache-2.0
"""What a fabric in virtual time is to carry: messages and computations that wait for each other."""
