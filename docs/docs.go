// Package docs carries the documents inside the binary.
package docs

import "embed"

// Files are the documents in English, those in Chinese below zh-CN, and the files that they show.
//
//go:embed *.md zh-CN images examples lab providers
var Files embed.FS
