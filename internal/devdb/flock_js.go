package devdb

import (
	"errors"
	"os"
)

// flock fails: in a browser tables are kept in memory only.
func flock(*os.File) error { return errors.ErrUnsupported }
