package main

// The modules that are changed.
const (
	engine = "github.com/dolthub/go-mysql-server"
	parser = "github.com/dolthub/vitess"
	paths  = "github.com/dolthub/jsonpath"
	packer = "github.com/andybalholm/brotli"
)

// change replaces what is found in files of a module.
type change struct {
	module, files string // a pattern of path.Match; files of collations are left out
	times         int    // it is found in all of them together
	find          string // a regular expression; "": the whole file
	by            string
}

// collations are those with which the statements of Conclave, and the engine's own tables,
// compare and sort. A statement with another one panics.
var collations = []string{
	"ascii_bin", "ascii_general_ci", "binary", "latin1_swedish_ci", "utf8mb3_bin", "utf8mb3_general_ci",
	"utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "utf8mb4_bin", "utf8mb4_general_ci",
}

// reduction is the type of a function that has one case of the parser's switch.
const reduction = "func(yyS []yySymType, yypt int, yyVAL *yySymType, yylex yyLexer) int"

// mapEntry finds an entry of a package's map; its value becomes that of a function.
const mapEntry = `(?m)^\t("[^"]+"): (.+\}|.+\{\n(?:\t\t.*\n)+\t\}),$`

var changes = []change{
	// What does not compile for js, like netstat.
	{engine, "server/net_listener_unix.go", 1, "", `package server

import "net"

func newNetListener(protocol, address string) (net.Listener, error) { return net.Listen(protocol, address) }
`},
	{parser, "go/mysql/auth_server_static.go", 2, `syscall\.SIGHUP`, "syscall.SIGTERM"},

	// What no statement of Conclave needs: the weights of other collations, spatial reference
	// systems but for 0 and 4326, spatial functions, filters in JSON paths, which go/types
	// evaluates, and the packer's HTTP server.
	{engine, "sql/encodings/*_Weights.bin", 69, "", ""},
	{engine, "sql/encodings/*.go", 171, `(?s)(func \w+_RuneWeight\(r rune\) int32 \{\n).*?\n\}\n`, "${1}\tpanic(\"this collation is left out here\")\n}\n"},
	{engine, "sql/types/spatial_reference_systems.go", 1, `(?s)(SupportedSRIDs = map\[uint32\]SpatialRef\{\n\tuint32\(0\):[^\n]*\n).*(\tuint32\(4326\):[^\n]*\n).*(\n\}\n)`, "$1$2$3"},
	{engine, "sql/expression/function/registry.go", 62, `(?m)^.*\bspatial[."].*\n`, ""},
	{paths, "jsonpath.go", 1, `\t"go/token"\n\t"go/types"\n`, ""},
	{paths, "jsonpath.go", 1, `(?s)\tvar exp string\n\tif isNumber\(obj1\).*?types\.Eval\(fset, nil, 0, exp\).*?\n\}\n`, "\treturn false, fmt.Errorf(\"filters are left out here\")\n}\n"},
	{packer, "http.go", 1, "", "package brotli\n"},

	// Functions of a megabyte, for which V8's optimizing compiler takes a minute and 400 MB: they
	// initialize variables of the engine, or are the parser's.
	{engine, "sql/variables/status_variables.go", 682, mapEntry, "\t$1: func() sql.StatusVariable { return $2 }(),"},
	{engine, "sql/variables/system_variables.go", 339, mapEntry, "\t$1: func() sql.SystemVariable { return $2 }(),"},
	{engine, "sql/information_schema/information_schema.go", 45, `(?ms)^(var \w+ = )(Schema\{\n.*?^\})\n`, "${1}func() Schema { return $2 }()\n"},
	{parser, "go/vt/sqlparser/sql.go", 1, `(?s)\n\tswitch yynt \{\n(.*)\n\t\}\n(\tgoto yystack [^\n]*\n\}\n)$`, `
	if yynt < len(yyReduce) && yyReduce[yynt] != nil && yyReduce[yynt](yyS, yypt, &yyVAL, yylex) != 0 {
		return 1
	}
$2
var yyReduce []` + reduction + `

func init() {
	yyReduce = []` + reduction + `{0: ` + reduction + ` {
$1
	return 0
}}
}
`},
	{parser, "go/vt/sqlparser/sql.go", 1686, `(?m)^\tcase (\d+):$`, "\treturn 0\n}, $1: " + reduction + " {\n\tvar yyDollar []yySymType\n\t_ = yyDollar"},
}

// netstat is a file that the engine does not have.
const netstat = `package sockstate

import "net"

func tcpSocks(AcceptFn) ([]sockTabEntry, error) { return nil, ErrSocketCheckNotImplemented.New() }

func GetConnInode(*net.TCPConn) (uint64, error) { return 0, ErrSocketCheckNotImplemented.New() }
`
