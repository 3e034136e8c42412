# SPDX-License-Identifier: Apache-2.0
"""The command language: what is said, what is refused and how, and that files are carried out as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.errors import CommandError, error_line
from detour.engine.bmv2api.commands.interpreter import help_text, run_file, understand_all
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.bmv2api.wire import ServiceError
from detour.engine.network import Network

from .conftest import EVERYTHING, SWITCH, Do


def test_an_entry_as_simple_switch_cli_tells_it(do: Do) -> None:
    assert do("table_add exact_two forward 00:00:00:00:00:01 5 => 3") == [
        "Adding entry to exact match table exact_two",
        "match key:           EXACT-00:00:00:00:00:01\tEXACT-00:05",
        "action:              forward",
        "runtime data:        00:03",
        "Entry has been added with handle 0",
    ]
    assert do("table_dump_entry MyIngress.exact_two 0") == [
        "Dumping entry 0x0",
        "Match key:",
        "* ethernet.dst_addr   : EXACT     000000000001",
        "* scalars.meta_t.vlan : EXACT     0005",
        "Action entry: MyIngress.forward - 03",
    ]
    assert do("table_num_entries exact_two") == ["1"]


def test_handles_have_versions_as_in_bmv2(do: Do) -> None:
    do("table_add exact_two forward 1 1 => 3")
    do("table_add exact_two forward 2 2 => 3")
    do("table_delete exact_two 0")
    with pytest.raises(ServiceError) as gone:
        do("table_delete exact_two 0")
    assert error_line(gone.value) == "Invalid table operation (INVALID_HANDLE)"
    assert do("table_add exact_two forward 3 3 => 3")[-1] == "Entry has been added with handle 16777216"
    with pytest.raises(ServiceError) as old:
        do("table_modify exact_two forward 0 1")
    assert error_line(old.value) == "Invalid table operation (EXPIRED_HANDLE)"
    for _ in range(127):
        do(f"table_delete exact_two {do('table_dump exact_two')[3].split()[-1]}")
        do("table_add exact_two forward 3 3 => 3")
    assert do("table_dump exact_two")[3] == "Dumping entry -0x80000000"  # Thrift has signed numbers only
    do("table_clear exact_two")
    assert do("table_add exact_two forward 3 3 => 3")[-1] == "Entry has been added with handle 0"


@pytest.mark.parametrize(
    ("line", "told_of"),
    [
        ("table_add nothing forward 1 => 1", "Error: Invalid table name (nothing): there are MyIngress.acl"),
        ("table_add exact_two set_vlan 1 1 => 1", "Error: Table exact_two has no action set_vlan: there are MyIng"),
        ("table_add exact_two forward 1 => 1", "Error: Table MyIngress.exact_two needs 2 key fields: ethernet.dst"),
        ("table_add exact_two forward 1 1 =>", "Error: Action MyIngress.forward needs 1 parameters: port (9 bits)"),
        ("table_add exact_two forward 1 1 => 512", "Invalid runtime data: Error while parsing 512 - Parameter is too"),
        ("table_add exact_two forward 1 1 => -1", "Invalid runtime data: Error while parsing -1 - Parameter is neg"),
        ("table_add exact_two forward 1 4096 => 1", "Invalid match key: Error while parsing 4096 - Parameter is too"),
        ("table_add exact_two forward 1:2 1 => 1", "Invalid match key: Error while parsing 1:2 - Invalid MAC addr"),
        ("table_add exact_two forward 1 x => 1", "Invalid match key: Error while parsing x - Invalid input, could"),
        ("table_add exact_two forward 1 1 1", "Error: Missing =>: put it between the match fields and what follows"),
        ("table_add lpm_route to_cpu ::1 => 1", "Invalid match key: Invalid LPM value ::1, use '/' to separate"),
        ("table_add lpm_route to_cpu ::1/129 => 1", "Invalid match key: Invalid prefix length 129: field ipv6.dst"),
        ("table_add lpm_route to_cpu 1:2/1 => 1", "Invalid match key: Error while parsing 1:2 - Invalid IPv6 addr"),
        ("table_add acl drop 0&&&0 0&&&0 5->1 1 => 1", "Invalid match key: start is greater than end in expression 5"),
        ("table_add acl drop 0&&&0 0&&&0 1->5 1 =>", "Error: Table is ternary, but could not extract a valid prio"),
        ("table_add acl drop 0 0&&&0 1->5 1 => 1", "Invalid match key: Invalid ternary value 0, use '&&&' to sep"),
        ("table_delete exact_two x", "Error: Bad format for entry handle"),
        ("table_set_timeout exact_two 0 5", "Error: Table exact_two does not support entry timeouts"),
        ("table_indirect_add exact_two 1 1 => 0", "Error: Cannot run this command on non-indirect table"),
        ("act_prof_create_group next_hops", "Error: Cannot run this command on an action profile without selector"),
        ("counter_read port_counter 64", "Error: Invalid index: MyIngress.port_counter has 0 to 63, not 64"),
        ("register_write octets 0 256", "Error: Bad value for value: 256 does not fit 8 bits"),
        ("register_read nothing", "Error: Invalid register name (nothing): there are MyIngress.octets, MyIngress.w"),
        ("meter_set_rates rate 0 1:1", "Error: Invalid number of rates, expected 2 but got 1"),
        ("meter_set_rates rate 0 2:1 1:1", "Error: Error while parsing rates: they must not become smaller"),
        ("meter_set_rates rate 0 nan:1 1:1", "Error: Error while parsing rates: 'nan:1' has a rate or a burst"),
        ("pvs_add ipv6_types 65536", "Error: Parameter is too large: 16 bits, 0 to 65535"),
        ("mc_node_create 1 2 2", "Error: Found duplicate port number '2'"),
        ("mc_node_create 1 512", "Error: '512' is not a valid port number: numbers are 0 to 511"),
        ("mc_mgrp_create -1", "Error: Bad value for multicast group id"),
        ("set_queue_rate", "Error: Insufficient number of args: at least 1, not 0"),
        ("set_queue_rate 1 2 3 4", "Error: Wrong number of args, expected 1 to 3 but got 4"),
        ("mc_node_associate 1", "Error: Wrong number of args, expected 2 but got 1"),
        ("mc_node_update 1", "Error: Insufficient number of args: at least 2, not 1"),
        ("act_prof_create_member ecmp drop_it", "Error: Action profile 'ecmp' has no action drop_it: there are MyIn"),
        ("table_indirect_create_member balanced x", "Error: Action profile 'MyIngress.ecmp' has no action x: there a"),
        ("set_crc32_parameters x 1 1 1 true true", "Error: Invalid crc32_custom name (x): there are none in this"),
        ("load_new_config_file /no/such", "Error: Not a valid filename: /no/such"),
        ("table_ad x", "Error: there is no command table_ad: did you mean table_add or"),
        ("shell ls", "Error: shell is not supported: shell commands are not supported"),
        ("!ls", "Error: !ls is not supported"),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(do: Do, line: str, told_of: str) -> None:
    before = do("table_dump exact_two"), do("mc_dump")
    with pytest.raises(CommandError) as wrong:
        do(line)
    assert error_line(wrong.value).startswith(told_of)
    assert (do("table_dump exact_two"), do("mc_dump")) == before


def test_an_array_of_direct_meters_is_set_as_a_whole(do: Do) -> None:
    entry = "table_add acl metered 2001:db8::{}&&&ffff:: 0x11&&&0xff 1->7 0x86dd => 10"
    do(entry.format(1))
    do("meter_set_rates acl_meter 0 3:4 5:6")
    do("meter_array_set_rates acl_meter 0.001:10 0.01:100")
    rates = ["0: info rate = 0.001, burst size = 10", "1: info rate = 0.01, burst size = 100"]
    assert do("meter_get_rates acl_meter 0") == rates
    do("table_add acl drop 0&&&0 0&&&0 1->5 1 => 1")
    assert do("meter_get_rates acl_meter 1") == rates


def test_every_command_has_help_and_refuses_a_hundred_words(do: Do) -> None:
    assert len(help_text([]).splitlines()) == len(COMMANDS)
    for name in COMMANDS:
        assert help_text([name]).startswith(name)
        with pytest.raises(DetourError):
            do(f"{name} {'x ' * 100}")


def test_help_shows_the_arguments() -> None:
    assert help_text(["table_add"]) == "table_add TABLE ACTION MATCH... => PARAMETER... [PRIORITY]: add an entry"
    assert help_text(["mc_node_create"]).startswith("mc_node_create RID PORT... [| LAG...]: create a node")
    assert help_text(["table_indirect_delete_member"]) == (
        "table_indirect_delete_member TABLE MEMBER: delete a member (deprecated: use act_prof_delete_member)"
    )
    assert help_text(["show_pvs"]) == "show_pvs: list parser value sets"


def test_the_commands_of_bmv2_are_all_there() -> None:
    """As its help lists them, but for those that ask for help, end it, or run the shell."""
    names = (
        "act_prof_add_member_to_group act_prof_create_group act_prof_create_member act_prof_delete_group "
        "act_prof_delete_member act_prof_dump act_prof_dump_group act_prof_dump_member act_prof_modify_member "
        "act_prof_remove_member_from_group counter_read counter_reset counter_write get_time_elapsed "
        "get_time_since_epoch load_new_config_file mc_dump mc_mgrp_create mc_mgrp_destroy mc_node_associate "
        "mc_node_create mc_node_destroy mc_node_dissociate mc_node_update mc_set_lag_membership "
        "meter_array_set_rates meter_get_rates meter_set_rates mirroring_add mirroring_add_mc mirroring_delete "
        "mirroring_get port_add port_remove pvs_add pvs_clear pvs_get pvs_remove register_read register_reset "
        "register_write reset_state serialize_state set_crc16_parameters set_crc32_parameters set_queue_depth "
        "set_queue_rate set_toeplitz_hash_key show_actions show_ports show_pvs show_tables swap_configs switch_info "
        "table_add table_clear table_delete table_dump table_dump_entry table_dump_entry_from_key table_dump_group "
        "table_dump_member table_indirect_add table_indirect_add_member_to_group table_indirect_add_with_group "
        "table_indirect_create_group table_indirect_create_member table_indirect_delete table_indirect_delete_group "
        "table_indirect_delete_member table_indirect_modify_member table_indirect_remove_member_from_group "
        "table_indirect_reset_default table_indirect_set_default table_indirect_set_default_with_group table_info "
        "table_modify table_num_entries table_reset_default table_set_default table_set_timeout table_show_actions "
        "write_config_to_file"
    )
    assert sorted(COMMANDS) == names.split()


# -- files


def test_a_file_is_carried_out(tmp_path: Path, api: BmRuntime, do: Do) -> None:
    path = tmp_path / "s1-commands.txt"
    path.write_text("# a comment\n\n// another\n  table_add exact_two forward 1 1 => 3\nmc_mgrp_create 7\n")
    printed: list[str] = []
    assert run_file(path, api, printed.append) == 2
    assert printed[-1] == "Creating multicast group 7"
    assert do("table_num_entries exact_two") == ["1"]


def test_nothing_of_a_file_with_a_mistake_is_done(tmp_path: Path, api: BmRuntime, do: Do) -> None:
    path = tmp_path / "s1-commands.txt"
    path.write_text("table_add exact_two forward 1 1 => 3\nregister_write words 99 1\n")
    with pytest.raises(DetourError, match=r"s1-commands.txt:2: Invalid index: MyIngress.words has 0 to 31, not 99$"):
        run_file(path, api)
    assert do("table_num_entries exact_two") == ["0"]


def test_what_the_switch_refuses_is_told_with_its_line(tmp_path: Path, api: BmRuntime) -> None:
    path = tmp_path / "c"
    path.write_text("mc_mgrp_create 1\n\ntable_add exact_two forward 1 1 => 3\ntable_add exact_two forward 1 1 => 4\n")
    message = r"c:4: Invalid table operation \(DUPLICATE_ENTRY\) \(2 of 3 commands were carried out before\)$"
    with pytest.raises(DetourError, match=message):
        run_file(path, api)


def test_files_that_cannot_be_read(tmp_path: Path, api: BmRuntime) -> None:
    with pytest.raises(DetourError, match=r"none: No such file"):
        run_file(tmp_path / "none", api)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    with pytest.raises(DetourError, match="this is not UTF-8 text"):
        run_file(tmp_path / "binary", api)


def test_a_switch_without_a_program(network: Network, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("show_tables\n")
    with pytest.raises(DetourError, match="the switch has no program yet"):
        run_file(tmp_path / "c", BmRuntime(BmDevice(network, SWITCH)))


def test_lines_after_a_new_program_are_understood_by_it(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes((EVERYTHING.parent / "meters.json").read_bytes())
    name = next(iter(ProgramNames(other.read_text()).tables))
    scope = CommandScope(ProgramNames(EVERYTHING.read_text()))
    text = f"load_new_config_file {other}\ntable_num_entries {name}\n"
    assert [each.line for each in understand_all("f", text, scope)] == [1, 2]
    with pytest.raises(DetourError, match=r"f:2: Invalid table name \(exact_two\)"):
        understand_all("f", f"load_new_config_file {other}\ntable_num_entries exact_two\n", scope)


def test_names_may_be_shortened_where_that_is_clear() -> None:
    source = json.loads(EVERYTHING.read_text())
    table = next(t for p in source["pipelines"] for t in p["tables"] if t["name"] == "MyIngress.exact_two")
    table["name"] = "Other.acl"
    program = ProgramNames(json.dumps(source))
    assert program.tables.find("lpm_route").name == "MyIngress.lpm_route"
    assert program.tables.find("Other.acl").name == "Other.acl"
    with pytest.raises(CommandError, match=r"Invalid table name \(acl\)"):
        program.tables.find("acl")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"header_types": 1}', "null", "\0"])
def test_what_is_no_program(text: str) -> None:
    with pytest.raises(DetourError, match="that is not BMv2 JSON"):
        ProgramNames(text)
