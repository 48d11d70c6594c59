from tests.stand_ins.alert_account import alerts, bucket, store

__all__ = ["alerts", "bucket", "store"]
