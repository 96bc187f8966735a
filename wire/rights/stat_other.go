//go:build !unix

package rights

import "io/fs"

// readableByOthers returns false: the mode of a file does not say there.
func readableByOthers(fs.FileInfo) bool { return false }
