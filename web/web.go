// Package web holds the web console as it was built. `make console` builds dist from the sources beside it.
package web

import "embed"

// Dist holds the files of the console in the folder dist.
//
//go:embed all:dist
var Dist embed.FS
