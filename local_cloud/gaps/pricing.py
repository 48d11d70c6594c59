"""Adds the Price List API, which moto lacks; GetProducts answers from the price file.

Unlike in AWS, each offer has an `origin` field, so that nobody mistakes it for AWS's current price.
Not supported: offers of services other than EC2, Reserved terms, paging, and filters except
`TERM_MATCH` and `EQUALS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Request, Response

from local_cloud.prices import Prices

TARGET = "AWSPriceListService.GetProducts"
# The codes of Linux On-Demand terms, which follow the product's id.
TERM, RATE = "JRTCKXETXF", "6YS6EN2CT7"


class PriceList:
    """WSGI middleware that answers GetProducts; without a price file, it returns no offers."""

    def __init__(self, app: WSGIApplication, prices: Prices | None) -> None:
        self._app = app
        self._offers = [offer(prices, name) for name in prices.on_demand] if prices else []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("HTTP_X_AMZ_TARGET") != TARGET:
            return self._app(environ, start_response)
        answer = self._answer(Request(environ).get_json(force=True))
        return answer(environ, start_response)

    def _answer(self, request: dict[str, Any]) -> Response:
        filters = request.get("Filters", [])
        if unknown := {wanted["Type"] for wanted in filters} - {"TERM_MATCH", "EQUALS"}:
            message = (
                f"the local cloud does not support filters of type {', '.join(sorted(unknown))}"
            )
            body = {"__type": "InvalidParameterException", "Message": message}
            return json_response(body, HTTPStatus.BAD_REQUEST)
        attributes = [(wanted["Field"], wanted["Value"]) for wanted in filters]
        found = [
            json.dumps(offered)
            for offered in self._offers
            if request.get("ServiceCode") == offered["serviceCode"]
            and all(offered["product"]["attributes"].get(key) == value for key, value in attributes)
        ]
        return json_response({"FormatVersion": "aws_v1", "PriceList": found}, HTTPStatus.OK)


def json_response(body: dict[str, Any], status: HTTPStatus) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/x-amz-json-1.1")


def offer(prices: Prices, instance_type: str) -> dict[str, Any]:
    """Build an On-Demand offer in AWS's format, plus an `origin` field with the price's source."""
    sku = instance_type.replace(".", "").replace("-", "").upper()
    term, rate = f"{sku}.{TERM}", f"{sku}.{TERM}.{RATE}"
    usd = f"{prices.on_demand[instance_type]:.10f}"
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${usd} per On Demand Linux {instance_type} Instance Hour",
        "appliesTo": [],
        "rateCode": rate,
        "pricePerUnit": {"USD": usd},
    }
    return {
        "origin": {
            "source": f"the local cloud's price file, not AWS today: {prices.source}",
            "source_url": prices.source_url,
            "as_of": prices.as_of.isoformat(),
        },
        "serviceCode": "AmazonEC2",
        "product": {
            "sku": sku,
            "productFamily": "Compute Instance",
            "attributes": {
                "instanceType": instance_type,
                "locationType": "AWS Region",
                "regionCode": prices.region,
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "marketoption": "OnDemand",
            },
        },
        "terms": {
            "OnDemand": {
                term: {
                    "sku": sku,
                    "offerTermCode": TERM,
                    "effectiveDate": f"{prices.as_of.isoformat()}T00:00:00Z",
                    "termAttributes": {},
                    "priceDimensions": {rate: dimension},
                }
            }
        },
    }
