# SPDX-License-Identifier: Apache-2.0
"""Helpers that every package may use and that use no other package: errors, units, native code, folders."""

__all__ = [
    "addresses", "arrays", "cache", "chain", "children", "cores", "dataplane", "descriptors", "documents", "errors",
    "extras", "files", "garbage", "grpc_loop", "heap", "html", "interrupting", "jit", "listening",
    "located_json", "memory", "native", "option_files", "override", "pages", "places", "plugins", "pointers",
    "port_owners", "progress", "protobuf", "quantities", "records", "reports", "secure_dir", "sources",
    "standard", "structs", "tables", "tcp_listener", "times", "unix_listener", "version",
]  # fmt: skip
