-- SPDX-License-Identifier: Apache-2.0
-- What Wireshark does not know of detour's packets: the Transit Measurement option, uSID lists, the SACK of LERP and
-- go-back-N, PTM and PTR. The layouts are those of hosts/frames/wire.py, the addresses those of topo/address.py.
--
--     wireshark -X lua_script:docs/wireshark/detour.lua s0-1.pcapng
--     tshark -X lua_script:docs/wireshark/detour.lua -r s0-1.pcapng -Y detour.sack.ce
--
-- RoCEv2 itself (BTH, RETH, AETH) stays with Wireshark's own dissector.

local detour = Proto("detour", "detour")
local probe = Proto("detour_probe", "detour Path Telemetry")

detour.prefs.tick_ns = Pref.uint("Length of a tick in ns", 1000, "1000 in real time and on BMv2, 1 in virtual time")

local IPV6, UDP, ROUTING, HOP_BY_HOP, SEGMENT_ROUTING, TRANSIT = 41, 17, 43, 0, 4, 0x3e
local ROCE_PORT, PROBE_PORT, ACKNOWLEDGE = 4791, 4793, 0x11
local BLOCK = "fcbbbb00"
local FIRST_HOST, FIRST_FUNCTION = 0x8000, 0xe000

-- fields ---------------------------------------------------------------------------------------------------------

local f = {
    delay = ProtoField.uint32("detour.delay", "Accumulated queuing delay", base.DEC, nil, nil, "ticks"),
    delay_us = ProtoField.double("detour.delay_us", "Accumulated queuing delay (us)"),
    usids = ProtoField.ipv6("detour.usid.list", "uSID list"),
    active = ProtoField.uint16("detour.usid.active", "Active uSID", base.HEX),
    usid = ProtoField.uint16("detour.usid", "uSID", base.HEX),
    left = ProtoField.uint8("detour.usid.left", "uSIDs left", base.DEC),
    place = ProtoField.string("detour.usid.place", "Leads to"),
    nonshortest = ProtoField.bool("detour.nonshortest", "Non-shortest path", 16, nil, 0x8000),
    hash = ProtoField.uint16("detour.path", "Choice among its kind", base.HEX, nil, 0x7fff),
    sack = ProtoField.bytes("detour.sack", "SACK"),
    version = ProtoField.bool("detour.sack.version", "Version", 8, nil, 0x80),
    hops = ProtoField.uint8("detour.sack.hops", "Switches that the packet passed", base.DEC, nil, 0x7c),
    has_delay = ProtoField.bool("detour.sack.has_delay", "Delay is valid", 8, nil, 0x02),
    ce = ProtoField.bool("detour.sack.ce", "The packet was CE marked", 8, nil, 0x01),
    psn = ProtoField.uint24("detour.sack.psn", "PSN of the packet that caused this", base.HEX),
    count = ProtoField.uint8("detour.sack.count", "Its transmissions before", base.DEC),
    first = ProtoField.uint24("detour.sack.first", "First PSN of the bitmap", base.HEX),
    forward = ProtoField.uint32("detour.sack.delay", "Forward delay (ticks)", base.DEC),
    bitmap = ProtoField.uint64("detour.sack.bitmap", "Bitmap", base.HEX),
    missing = ProtoField.string("detour.sack.missing", "Missing before the last one that arrived"),
}
detour.fields = f

local KINDS = { [1] = "PTM", [2] = "PTR" }
local p = {
    magic = ProtoField.string("detour_probe.magic", "Magic"),
    version = ProtoField.uint8("detour_probe.version", "Version"),
    kind = ProtoField.uint8("detour_probe.type", "Type", base.DEC, KINDS),
    qpn = ProtoField.uint32("detour_probe.qpn", "Requester's QPN", base.HEX),
    sequence = ProtoField.uint32("detour_probe.sequence", "Sequence", base.DEC),
    delay = ProtoField.uint32("detour_probe.delay", "Forward delay (ticks)", base.DEC),
    candidate = ProtoField.uint16("detour_probe.candidate", "Candidate path", base.DEC),
}
probe.fields = p

-- uSIDs ----------------------------------------------------------------------------------------------------------

local function place_of(usid)
    if usid >= FIRST_FUNCTION then
        return "port " .. (usid - FIRST_FUNCTION)
    elseif usid >= FIRST_HOST then
        return "h" .. (usid - FIRST_HOST)
    end
    return "s" .. (usid - 1)
end

-- Takes an address of the uSID block apart; the active uSID is the first behind the block. Returns a text for the
-- list of packets, nil if the address is none.
local function dissect_usids(address, tree)
    if tostring(address(0, 4):bytes()):lower() ~= BLOCK then
        return nil
    end
    local usids = {}
    for at = 4, 14, 2 do
        local usid = address(at, 2):uint()
        if usid == 0 then
            break
        end
        usids[#usids + 1] = usid
    end
    local list = tree:add(f.usids, address)
    local names = {}
    for number, usid in ipairs(usids) do
        local where = address(2 + 2 * number, 2)
        local place = place_of(usid)
        local text = string.format("uSID %d: 0x%04x, %s", number, usid, place)
        if number == 1 then
            list:add(f.active, where):set_text(text .. "  <- active")
            place = "*" .. place
        else
            list:add(f.usid, where):set_text(text)
        end
        list:add(f.place, where, place_of(usid)):set_generated()
        names[number] = place
    end
    list:add(f.left, #usids):set_generated()
    local text = table.concat(names, " ")
    list:append_text(" (" .. text .. ")")
    return text
end

-- headers --------------------------------------------------------------------------------------------------------

local function dissect_options(options, tree)
    local at = 2
    while at + 2 <= options:len() do
        local kind = options(at, 1):uint()
        if kind == 0 then
            at = at + 1
        else
            local length = options(at + 1, 1):uint()
            if kind == TRANSIT and length == 4 and at + 6 <= options:len() then
                local where = options(at + 2, 4)
                tree:add(f.delay, where)
                tree:add(f.delay_us, where, where:uint() * detour.prefs.tick_ns / 1000):set_generated()
            end
            at = at + 2 + length
        end
    end
end

local function dissect_segments(routing, tree)
    if routing:len() < 24 or routing(2, 1):uint() ~= SEGMENT_ROUTING then
        return
    end
    for at = 8, routing:len() - 16, 16 do
        dissect_usids(routing(at, 16), tree)
    end
end

-- The PSNs before the highest one of the bitmap that have not arrived.
local function missing(first, bitmap)
    local last = -1
    for bit = 0, 63 do
        if bitmap:rshift(bit):band(1):tonumber() == 1 then
            last = bit
        end
    end
    local found = {}
    for bit = 0, last do
        if bitmap:rshift(bit):band(1):tonumber() == 0 then
            found[#found + 1] = string.format("0x%06x", (first + bit) % 0x1000000)
        end
    end
    return table.concat(found, " ")
end

local function dissect_sack(sack, tree)
    local sub = tree:add(f.sack, sack)
    sub:set_text("Selective acknowledgement")
    for _, field in ipairs({ f.version, f.hops, f.has_delay, f.ce }) do
        sub:add(field, sack(0, 1))
    end
    sub:add(f.psn, sack(1, 3))
    sub:add(f.count, sack(4, 1))
    sub:add(f.first, sack(5, 3))
    sub:add(f.forward, sack(8, 4))
    sub:add(f.bitmap, sack(12, 8))
    sub:add(f.missing, sack(12, 8), missing(sack(5, 3):uint(), sack(12, 8):uint64())):set_generated()
    local ce = sack(0, 1):bitfield(7, 1) == 1 and ", CE" or ""
    return string.format("SACK 0x%06x%s", sack(1, 3):uint(), ce)
end

local function dissect_udp(udp, tree)
    if udp:len() < 8 then
        return nil
    end
    local port = udp(2, 2):uint()
    if port ~= ROCE_PORT and port ~= PROBE_PORT then
        return nil
    end
    tree:add(f.nonshortest, udp(0, 2))
    tree:add(f.hash, udp(0, 2))
    -- UDP 8, BTH 12, AETH 4, SACK 20, ICRC 4
    if port == ROCE_PORT and udp:len() >= 48 and udp(8, 1):uint() == ACKNOWLEDGE then
        return dissect_sack(udp(24, 20):tvb()(), tree)
    end
    return nil
end

-- One IPv6 packet from `at` on, and one more if there is another one inside.
local function dissect_ipv6(frame, tree, inside)
    local said = {}
    if frame:len() < 40 then
        return said
    end
    said[#said + 1] = dissect_usids(frame(24, 16), tree)
    local following, at = frame(6, 1):uint(), 40
    while (following == HOP_BY_HOP or following == ROUTING) and at + 8 <= frame:len() do
        local length = 8 * (frame(at + 1, 1):uint() + 1)
        if at + length > frame:len() then
            return said
        end
        if following == HOP_BY_HOP then
            dissect_options(frame(at, length), tree)
        else
            dissect_segments(frame(at, length), tree)
        end
        following, at = frame(at, 1):uint(), at + length
    end
    if at >= frame:len() then
        return said
    end
    if following == UDP then
        said[#said + 1] = dissect_udp(frame(at), tree)
    elseif following == IPV6 and not inside then
        for _, text in ipairs(dissect_ipv6(frame(at), tree, true)) do
            said[#said + 1] = text
        end
    end
    return said
end

function detour.dissector(buffer, pinfo, tree)
    local at = 12
    while at + 2 <= buffer:len() and buffer(at, 2):uint() == 0x8100 do
        at = at + 4
    end
    if at + 42 > buffer:len() or buffer(at, 2):uint() ~= 0x86dd then
        return
    end
    local sub = tree:add(detour, buffer(at + 2))
    local said = dissect_ipv6(buffer(at + 2), sub, false)
    if #said > 0 then
        pinfo.cols.info:append("  [" .. table.concat(said, "; ") .. "]")
    end
end

function probe.dissector(buffer, pinfo, tree)
    if buffer:len() < 20 or buffer(0, 2):string() ~= "DT" then
        return 0
    end
    local kind = KINDS[buffer(3, 1):uint()] or "unknown"
    pinfo.cols.protocol = kind
    pinfo.cols.info = string.format("%s %d, candidate %d", kind, buffer(8, 4):uint(), buffer(16, 2):uint())
    local sub = tree:add(probe, buffer(0, 20))
    sub:append_text(", " .. kind)
    sub:add(p.magic, buffer(0, 2))
    sub:add(p.version, buffer(2, 1))
    sub:add(p.kind, buffer(3, 1))
    sub:add(p.qpn, buffer(4, 4))
    sub:add(p.sequence, buffer(8, 4))
    sub:add(p.delay, buffer(12, 4))
    sub:add(p.candidate, buffer(16, 2))
    return 20
end

DissectorTable.get("udp.port"):add(PROBE_PORT, probe)
register_postdissector(detour)
