"""AWS's answers about prices."""

import csv
import io
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


def spot_offer(zone, price, at, instance_type="g5.xlarge"):
    """One entry of the Spot price history."""
    return {
        "AvailabilityZone": f"us-east-1{zone}",
        "InstanceType": instance_type,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": at,
    }


# What a file of AWS's price list of AmazonEC2 begins with, and an offer of it.
LIST_HEAD = {
    "FormatVersion": "v1.0",
    "Disclaimer": "This pricing list is for informational purposes only.",
    "Publication Date": "2026-11-20T22:53:08Z",
    "Version": "20261120225308",
    "OfferCode": "AmazonEC2",
}
LISTED = {
    "SKU": "2223B6PCG6QAUYY6",
    "TermType": "OnDemand",
    "PriceDescription": "$1.006 per On Demand Linux Instance Hour, all of it",
    "Unit": "Hrs",
    "PricePerUnit": "1.0060000000",
    "Currency": "USD",
    "LeaseContractLength": "",
    "Location Type": "AWS Region",
    "Instance Type": "g5.xlarge",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "CapacityStatus": "Used",
    "MarketOption": "OnDemand",
    "Pre Installed S/W": "NA",
    "Region Code": "us-east-1",
}


def price_list(*offers, above=LIST_HEAD, columns=tuple(LISTED)):
    """A file of AWS's price list as CSV: its offers are the plain one with what they change."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows(above.items())
    writer.writerow(columns)
    writer.writerows([(LISTED | offer)[column] for column in columns] for offer in offers)
    return text.getvalue()
