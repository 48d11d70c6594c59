from tests.stand_ins.regression_schedule import quiet_history, schedule

__all__ = ["quiet_history", "schedule"]
