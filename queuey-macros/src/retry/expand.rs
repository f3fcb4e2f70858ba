//! `retry(…)` as calls into the runtime.

use proc_macro2::TokenStream;
use quote::quote;

use crate::paths::Runtime;

use super::parse::{Jitter, Retry};

impl Retry {
    /// An expression of type `RetryPolicy`.
    pub(crate) fn expand(&self, rt: &Runtime) -> TokenStream {
        let max_attempts = self.max_attempts.value().map(|attempts| quote!(.max_attempts(#attempts)));
        let backoff = self.backoff.value().map(|backoff| backoff.word()).map(|word| quote!(.backoff(#word)));
        let delay = self.delay.value().map(|delay| rt.millis(*delay)).map(|delay| quote!(.delay(#delay)));
        let base = self.base.value().map(|base| rt.millis(*base)).map(|base| quote!(.base(#base)));
        let factor = self.factor.value().map(|factor| quote!(.factor(#factor)));
        let max = self.max.value().map(|max| rt.millis(*max)).map(|max| quote!(.max(#max)));
        let delays = self.delays.value().map(|delays| {
            let delays = delays.iter().map(|delay| rt.millis(delay.value));
            quote!(.delays(&[#(#delays),*]))
        });
        let jitter = self.jitter.value().map(|jitter| match jitter {
            Jitter::Full(full) => quote!(.jitter(#full)),
            Jitter::Fraction(fraction) => quote!(.jitter_fraction(#fraction)),
        });
        let give_up_after =
            self.give_up_after.value().map(|age| rt.millis(*age)).map(|age| quote!(.give_up_after(#age)));
        quote! {
            #rt::RetryKeys::new()
                #max_attempts #backoff #delay #base #factor #max #delays #jitter #give_up_after
                .policy()
        }
    }
}
