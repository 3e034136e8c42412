# SPDX-License-Identifier: Apache-2.0
"""`standard`: members and groups of action profiles.

BMv2's handles are the engine's rows. P4Runtime knows members and groups by ids that its clients choose; those that are
made here get the handle + 1, or the next number that is free.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count

from detour.engine.bmv2api.calls.keys import action_data, action_of, arguments, group_id, member_id, refused, translated
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.types import ProfileGroup, ProfileMember, TableCode
from detour.engine.tables import ActionProfile, GroupMember


class ProfileCalls(CallPart):
    """See the module."""

    def profile(self, name: str, with_groups: bool = False) -> ActionProfile:
        """An action profile, or one with groups."""
        profile = self.device.state.action_profiles.get(name)
        if profile is None:
            raise refused(TableCode.INVALID_ACTION_PROFILE_NAME)
        if with_groups and profile.spec.selector is None:
            raise refused(TableCode.NO_ACTION_PROFILE_SELECTION)
        return profile

    # -- members

    def bm_mt_act_prof_add_member(self, act_prof_name: str, action_name: str, data: Sequence[bytes]) -> int:
        profile = self.profile(act_prof_name)
        action = action_of(profile.spec.actions.values(), action_name)
        params = arguments(action, data)
        handle = profile.following[0]
        with translated():
            profile.add_member(_free(handle + 1, set(profile.members())), action.id, params)
        return handle

    def bm_mt_act_prof_modify_member(
        self, act_prof_name: str, mbr_handle: int, action_name: str, data: Sequence[bytes]
    ) -> None:
        profile = self.profile(act_prof_name)
        action = action_of(profile.spec.actions.values(), action_name)
        params = arguments(action, data)
        profile.modify_member(member_id(profile, mbr_handle), action.id, params)

    def bm_mt_act_prof_delete_member(self, act_prof_name: str, mbr_handle: int) -> None:
        profile = self.profile(act_prof_name)
        member = member_id(profile, mbr_handle)
        with translated(TableCode.MBR_STILL_USED):  # there is one, so what can be wrong is that it is in use
            profile.delete_member(member)

    def bm_mt_act_prof_get_members(self, act_prof_name: str) -> list[ProfileMember]:
        profile = self.device.state.action_profiles.get(act_prof_name)
        return [] if profile is None else [_member(profile, row) for row in profile.member_rows()]

    def bm_mt_act_prof_get_member(self, act_prof_name: str, mbr_handle: int) -> ProfileMember:
        profile = self.profile(act_prof_name)
        if mbr_handle not in profile.member_rows():
            raise refused(TableCode.INVALID_MBR_HANDLE)
        return _member(profile, mbr_handle)

    # -- groups

    def bm_mt_act_prof_create_group(self, act_prof_name: str) -> int:
        profile = self.profile(act_prof_name, with_groups=True)
        handle = profile.following[1]
        group = _free(handle + 1, set(profile.groups()))
        profile.add_group(group)
        store = self.device.profile_store(act_prof_name)
        if store is not None:
            store.sizes[group] = 0
        return handle

    def bm_mt_act_prof_delete_group(self, act_prof_name: str, grp_handle: int) -> None:
        profile = self.profile(act_prof_name, with_groups=True)
        group = group_id(profile, grp_handle)
        with translated(TableCode.GRP_STILL_USED):
            profile.delete_group(group)
        store = self.device.profile_store(act_prof_name)
        if store is not None:
            store.sizes.pop(group, None)

    def bm_mt_act_prof_add_member_to_group(self, act_prof_name: str, mbr_handle: int, grp_handle: int) -> None:
        profile, member, group = self._member_and_group(act_prof_name, mbr_handle, grp_handle)
        members, _ = profile.group(group)
        if any(m.member == member for m in members):
            raise refused(TableCode.MBR_ALREADY_IN_GRP)
        with translated():
            profile.set_group(group, (*members, GroupMember(member)))

    def bm_mt_act_prof_remove_member_from_group(self, act_prof_name: str, mbr_handle: int, grp_handle: int) -> None:
        profile, member, group = self._member_and_group(act_prof_name, mbr_handle, grp_handle)
        members, _ = profile.group(group)
        if all(m.member != member for m in members):
            raise refused(TableCode.MBR_NOT_IN_GRP)
        profile.set_group(group, tuple(m for m in members if m.member != member))

    def _member_and_group(self, name: str, mbr_handle: int, grp_handle: int) -> tuple[ActionProfile, int, int]:
        profile = self.profile(name, with_groups=True)
        return profile, member_id(profile, mbr_handle), group_id(profile, grp_handle)

    def bm_mt_act_prof_get_groups(self, act_prof_name: str) -> list[ProfileGroup]:
        profile = self.device.state.action_profiles.get(act_prof_name)
        return [] if profile is None else [_group(profile, row) for row in profile.group_rows()]

    def bm_mt_act_prof_get_group(self, act_prof_name: str, grp_handle: int) -> ProfileGroup:
        profile = self.profile(act_prof_name, with_groups=True)
        if grp_handle not in profile.group_rows():
            raise refused(TableCode.INVALID_GRP_HANDLE)
        return _group(profile, grp_handle)


def _free(first: int, taken: Collection[int]) -> int:
    return next(number for number in count(first) if number not in taken)


def _member(profile: ActionProfile, row: int) -> ProfileMember:
    action, values = profile.member(profile.member_id(row))
    return ProfileMember(row, action.name, action_data(values))


def _group(profile: ActionProfile, row: int) -> ProfileGroup:
    members, _ = profile.group(profile.group_id(row))
    return ProfileGroup(row, sorted(profile.member_row(m.member) for m in members))
