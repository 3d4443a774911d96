//go:build ignore

// Submit stores an order and its message in one transaction of PostgreSQL. Usage: submit URL ORDER PHONE TEXT
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func submit(ctx context.Context, conn *pgx.Conn, no, phone, text string) (string, error) {
	var taskID string
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO shop.orders (no, phone) VALUES ($1, $2)", no, phone); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT lksms.enqueue($1, $2, dedup_key => $3)", phone, text, "order-"+no).Scan(&taskID)
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Code, "LK") {
		log.Printf("%s is wrong: %s", refused.ColumnName, refused.Message)
	}
	return taskID, err
}

func main() {
	conn, err := pgx.Connect(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	id, err := submit(context.Background(), conn, os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
}
