"""Passes over kernel programs: functions that take a program and give the rewritten one."""
