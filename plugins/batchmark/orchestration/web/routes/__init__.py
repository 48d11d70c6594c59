"""The routes of the pages inside Airflow. Each checks access before it reads anything."""
