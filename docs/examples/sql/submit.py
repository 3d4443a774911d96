"""Stores an order and its message in one transaction of PostgreSQL. Usage: submit.py URL ORDER PHONE TEXT"""

import sys

import psycopg

url, no, phone, text = sys.argv[1:]
with psycopg.connect(url) as connection:  # commits at the end, rolls back after an exception
    try:
        connection.execute("INSERT INTO shop.orders (no, phone) VALUES (%s, %s)", (no, phone))
        task_id, = connection.execute(
            "SELECT lksms.enqueue(%s, %s, dedup_key => %s)", (phone, text, f"order-{no}")
        ).fetchone()
    except psycopg.Error as refused:
        if (refused.sqlstate or "").startswith("LK"):
            print(refused.diag.column_name, "is wrong:", refused.diag.message_primary)
        raise
print(task_id)
