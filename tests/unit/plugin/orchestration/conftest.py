from tests.stand_ins.alert_account import alerts, bucket, context, published, set_up, store

__all__ = ["alerts", "bucket", "context", "published", "set_up", "store"]
