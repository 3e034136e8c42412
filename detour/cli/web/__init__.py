# SPDX-License-Identifier: Apache-2.0
"""`detour web`: a page that shows a fabric and lets it be changed (docs/web.md)."""
