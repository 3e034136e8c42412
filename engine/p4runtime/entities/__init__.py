# SPDX-License-Identifier: Apache-2.0
"""The kinds of entities. Each module offers

- `prepare(store, kind, message)`: checks an update against P4Info (without looking at state, in any thread) and returns
  a function that carries it out; that function runs while no packet is processed and either does all or raises;
- `read(store, message, role_ids)`: the entities that match a read request.
"""
