//! Generates the gRPC code of `proto/authority.proto`; no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/authority.proto");
    let files = protox::compile(["proto/authority.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
