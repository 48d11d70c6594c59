"""The routes of the pages inside Airflow. Each asks who is looking before it reads anything."""
