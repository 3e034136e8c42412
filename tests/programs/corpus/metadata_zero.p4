// SPDX-License-Identifier: Apache-2.0
// User metadata begins at zero with every packet; standard metadata at what v1model says.
#include "lib.p4"

header head_t { bit<16> a; bit<32> b; bit<8> standard; bit<16> port; }
struct inner_t { bit<16> a; bit<32> b; bool c; }
struct headers_t { head_t h; }
struct meta_t { inner_t inner; bit<7> odd; }

PLAIN_PARSER

INGRESS {
    apply {
        if (hdr.h.isValid()) {
            bit<16> keep = hdr.h.a;
            hdr.h.a = meta.inner.a + (bit<16>)meta.odd + (bit<16>)(bit<1>)meta.inner.c;
            hdr.h.b = meta.inner.b;
            hdr.h.standard = 3w0 ++ (bit<1>)(std.egress_spec == 0) ++ (bit<1>)(std.mcast_grp == 0) ++
                (bit<1>)(std.instance_type == 0) ++ (bit<1>)(std.egress_rid == 0) ++ std.checksum_error;
            hdr.h.port = (bit<16>)std.ingress_port;
            meta.inner.a = keep;
            meta.inner.b = 0xffffffff;
            meta.inner.c = true;
            meta.odd = 0x7f;
        }
        std.egress_spec = std.ingress_port;
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
