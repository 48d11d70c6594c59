"""AWS's answers about prices."""

import json
from datetime import timedelta

HOUR = timedelta(hours=1)


def offer(instance_type, usd, *, unit="Hrs"):
    sku = f"SKU{instance_type}".upper().replace(".", "")
    term, rate = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    dimension = {
        "unit": unit,
        "endRange": "Inf",
        "description": f"${usd} per On Demand Linux {instance_type} Instance Hour",
        "appliesTo": [],
        "rateCode": rate,
        "beginRange": "0",
        "pricePerUnit": {"USD": usd},
    }
    return json.dumps(
        {
            "product": {
                "productFamily": "Compute Instance",
                "attributes": {"instanceType": instance_type, "operatingSystem": "Linux"},
                "sku": sku,
            },
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {
                    term: {
                        "priceDimensions": {rate: dimension},
                        "sku": sku,
                        "effectiveDate": "2026-11-01T00:00:00Z",
                        "offerTermCode": "JRTCKXETXF",
                        "termAttributes": {},
                    }
                }
            },
            "version": "20261119174913",
            "publicationDate": "2026-11-19T17:49:13Z",
        }
    )
