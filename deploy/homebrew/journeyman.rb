# Installs Journeyman with Homebrew on Linux. scripts/formula.sh fills in the version and the checksums;
# scripts/package.sh calls it once the archives of both architectures exist.
class Journeyman < Formula
  desc "Runs coding agents on git repositories: a prompt becomes a pull request"
  homepage "https://github.com/journeyman-dev/journeyman"
  license "Apache-2.0"

  depends_on "bubblewrap"
  depends_on "git"
  depends_on :linux
  depends_on "util-linux"

  on_intel do
    url "https://github.com/journeyman-dev/journeyman/releases/download/v@VERSION@/journeyman-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
    sha256 "@X86_64@"
  end
  on_arm do
    url "https://github.com/journeyman-dev/journeyman/releases/download/v@VERSION@/journeyman-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
    sha256 "@AARCH64@"
  end

  def install
    bin.install "journeyman"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/journeyman.bash" => "journeyman"
    zsh_completion.install "completions/_journeyman"
    fish_completion.install "completions/journeyman.fish"
    (etc/"journeyman").install "journeyman.toml"
    doc.install "README.md", "CHANGELOG.md", "THIRD-PARTY-NOTICES.txt", "journeyman.sbom.json"
  end

  service do
    run [opt_bin/"journeyman", "serve", "--config", etc/"journeyman/journeyman.toml"]
    keep_alive true
    environment_variables PATH: std_service_path_env
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/journeyman --version")
    assert_match "#listen", shell_output("#{bin}/journeyman config example")
  end
end
