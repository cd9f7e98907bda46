"""All lines of the table, by name. A new module adds its own here."""

from faults.answering import s1, s2
from faults.bombs import s7
from faults.conditions import r11, r13, r16, r17
from faults.contract import s5
from faults.damage import r7, r8, r9, v1
from faults.disks import r10
from faults.ending import s10, s11
from faults.figure import Line
from faults.hostile_requests import s3, s4, s6, s9
from faults.inputs import d1
from faults.kills import k1, r1, r2
from faults.signals import r12, r14
from faults.weights import s8

ALL: dict[str, Line] = {
    "R1": r1,
    "R2": r2,
    "K1": k1,
    "R7": r7,
    "R8": r8,
    "R9": r9,
    "R10": r10,
    "R11": r11,
    "R12": r12,
    "R13": r13,
    "R14": r14,
    "R16": r16,
    "R17": r17,
    "V1": v1,
    "D1": d1,
    "S1": s1,
    "S2": s2,
    "S3": s3,
    "S4": s4,
    "S5": s5,
    "S6": s6,
    "S7": s7,
    "S8": s8,
    "S9": s9,
    "S10": s10,
    "S11": s11,
}
