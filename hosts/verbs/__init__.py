# SPDX-License-Identifier: Apache-2.0
"""RDMA verbs: queue pairs, completion queues, memory; one by one, or tens of thousands at once."""
