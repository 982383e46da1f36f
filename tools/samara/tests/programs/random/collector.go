package main
import ("fmt";"runtime")
func main(){ var keep [][]byte; for i:=0;i<20000;i++ { b:=make([]byte, 10000+i%5000); if i%50==0 {keep=append(keep,b)}; if i%5000==0 {runtime.GC()} }; fmt.Println(len(keep)) }
