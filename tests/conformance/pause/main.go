// Command pause holds the namespaces of a pod open until it is told to end; as a container it may be told how to go.
package main

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	takes := flag.Duration("takes", 0, "how long to go on after the signal")
	code := flag.Int("exit", 0, "exit code")
	after := flag.Duration("after", 0, "end by itself after so long, as a container of the initialization does")
	ignore := flag.Bool("ignore", false, "do not mind the signal")
	flag.Parse()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	if *after > 0 {
		time.Sleep(*after)
		return
	}
	<-end
	for *ignore {
		<-end
	}
	time.Sleep(*takes)
	os.Exit(*code)
}
