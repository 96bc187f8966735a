// The folder .ci has what judges a clean checkout on a bare machine, and what the
// Makefile shares with it. Nothing here is imported or shipped.
//
//	run               every step of CI in its order, with the time that it took
//	testreport.go     turns the output of `go test -json` into what people read
//	fuzz              one fuzz target, for a time
//	check-image       builds the image in each supported way, and checks it
//	docker-up         a running Docker engine
//	go-image, mysql-image, zookeeper-image
//	                  images where no registry can be reached
//	lib.sh            what these scripts share
//	release, nfpm.yaml
//	                  what users download, and its Debian package
//	rename            gives the module another path
//
// # Files, in reading order
//
//   - testreport.go: a line for each package, all output of what failed, what was skipped
//
// # What is not guaranteed
//
//   - That it works on another system: the scripts that install something are made for
//     Debian and root.
package main
