// Package db carries the migrations inside the binary.
package db

import "embed"

// Migrations contains migrations/*.sql.
//
//go:embed migrations/*.sql
var Migrations embed.FS
