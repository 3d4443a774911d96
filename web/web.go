// Package web contains the built web console. `make console` builds dist from the sources in this folder.
package web

import "embed"

// Dist contains the files of the console in the folder dist.
//
//go:embed all:dist
var Dist embed.FS
