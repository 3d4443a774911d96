// Package contract carries the OpenAPI document inside the binary, as it is written.
package contract

import _ "embed"

// YAML is openapi.yaml.
//
//go:embed openapi.yaml
var YAML []byte
