"""The routes for the pages inside Airflow; each checks access before reading anything."""
