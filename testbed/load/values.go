package load

import (
	"strconv"
	"strings"
)

// DataID returns the i-th dataId of a prefix, from 0.
func DataID(prefix string, i int) string { return prefix + "." + strconv.Itoa(i) }

// DataIDs returns the dataIds of a prefix.
func DataIDs(prefix string) func(i int) string {
	return func(i int) string { return DataID(prefix, i) }
}

// Value returns a value of 100 bytes.
func Value(i int) string {
	var v strings.Builder
	v.Grow(len(padding))
	v.WriteString("10.0.0.1:8080?i=")
	v.WriteString(strconv.Itoa(i))
	v.WriteByte('&')
	v.WriteString(padding[v.Len():])
	return v.String()
}

var padding = strings.Repeat("x", 100)
