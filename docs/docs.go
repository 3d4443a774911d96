// Package docs carries the documents inside the binary.
package docs

import "embed"

// Files contains the documents in English, the documents in Chinese below zh-CN, and the files that they show.
//
//go:embed *.md zh-CN images examples lab providers
var Files embed.FS
